"use strict";
// A click on a picture, or Enter on it, shows it as large as the window allows. Escape or another click closes it.
(function () {
  const large = document.createElement("dialog");
  large.className = "large";
  const shown = document.createElement("img");
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "close";
  large.append(close, shown);
  document.body.append(large);
  large.addEventListener("click", () => large.close());

  function enlarge(picture) {
    shown.src = picture.src;
    shown.alt = picture.alt;
    large.setAttribute("aria-label", picture.alt);
    large.showModal();
    close.focus();
  }

  for (const picture of document.querySelectorAll("img.picture")) {
    picture.tabIndex = 0;
    picture.setAttribute("role", "button");
    picture.setAttribute("aria-label", "Enlarge: " + picture.alt);
    picture.addEventListener("click", () => enlarge(picture));
    picture.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      enlarge(picture);
    });
  }
  // A dialog gives the focus back to the picture when it closes.
})();
