"use strict";
// Interactive charts in place of the static images of the page. Names come from scenarios, so they enter the page only
// as text.
(function () {
  const HEIGHT = 340;
  const NARROW = 560;
  // The edges of the bands: of the runs (dark), of the nodes (light). A figure without a band has no such values.
  const EDGES = ["low", "high", "q05", "q95"];
  const PARTS = 1 + EDGES.length;

  function seriesOf(curve, shown) {
    const edge = { show: shown, scale: "y", stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
    const few = curve.mean.filter((value) => value !== null).length < 2;
    const line = {
      show: shown, scale: "y", stroke: curve.colour, width: 2, dash: curve.dash, spanGaps: true,
      points: { show: few, size: 8, fill: curve.colour },
    };
    return [line, ...EDGES.map(() => ({ ...edge }))];
  }

  function short(value) {
    return value === null || value === undefined ? "–" : String(Number(value.toPrecision(4)));
  }

  // Marks of a log axis: powers of ten, then 1-2-5, then even steps: the first of these with at least three marks.
  function marks(low, high) {
    const powers = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) powers.push(10 ** power);
    const inside = (places) => places.filter((place) => place >= low && place <= high);
    const decades = inside(powers);
    const finer = inside(powers.flatMap((power) => [power, 2 * power, 5 * power]));
    if (decades.length > 4) return decades;
    if (finer.length > 2) return finer;
    const rough = (high - low) / 4;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough);
    return inside([0, 1, 2, 3, 4, 5].map((count) => (Math.ceil(low / step) + count) * step));
  }

  function swatch(curve) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("width", 26);
    svg.setAttribute("height", 8);
    svg.setAttribute("aria-hidden", "true");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [name, value] of Object.entries({ x1: 0, x2: 26, y1: 4, y2: 4, stroke: curve.colour, "stroke-width": 3 })) {
      line.setAttribute(name, value);
    }
    line.setAttribute("stroke-dasharray", curve.dash.map((length) => length * 0.7).join(" "));
    svg.append(line);
    return svg;
  }

  class Chart {
    constructor(figure, data) {
      this.figure = figure;
      this.data = data;
      this.place = figure.querySelector(".chart");
      this.legend = figure.querySelector(".legend");
      this.picture = figure.querySelector(".picture");
      this.log = data.cycles[0] > 0;
      this.shown = data.curves.map(() => true);
      this.zoomed = false;
      this.panels = data.panels || [{ title: "", curves: data.curves }];
      this.plots = [];
      this.plot = null; // the first one
    }

    start() {
      const controls = this.figure.querySelector(".controls");
      this.axisButton = controls.querySelector(".axis");
      this.resetButton = controls.querySelector(".reset");
      this.swapButton = controls.querySelector(".swap");
      this.axisButton.addEventListener("click", () => this.switchAxis());
      this.resetButton.addEventListener("click", () => this.reset());
      this.swapButton.addEventListener("click", () => this.swap());
      this.axisButton.disabled = !(this.data.cycles[0] > 0);
      this.axisButton.setAttribute("aria-pressed", String(this.log));
      this.place.setAttribute("role", "img");
      this.place.setAttribute("aria-label", this.picture.alt);
      this.fillLegend();
      controls.hidden = this.place.hidden = this.legend.hidden = false;
      this.picture.hidden = true;
      this.draw();
      new ResizeObserver(() => this.resize()).observe(this.place);
    }

    size() {
      const room = this.place.querySelector(".panel") || this.place;
      const width = Math.max(200, Math.floor(room.clientWidth));
      return { width, height: this.panels.length > 1 ? 230 : width < NARROW ? 260 : HEIGHT };
    }

    options(panel) {
      const { curves } = panel;
      const several = this.panels.length > 1;
      const grid = { stroke: "#e8ebef", width: 1 };
      const ticks = { stroke: "#c3cad2", width: 1, size: 5 };
      const font = "12px system-ui, 'DejaVu Sans', sans-serif";
      const axis = { stroke: "#59636e", grid, ticks, font, labelFont: font, labelSize: 18 };
      return {
        ...this.size(),
        legend: { show: false },
        cursor: {
          drag: { x: true, y: false, setScale: true }, points: { size: 7 },
          ...(several ? { sync: { key: this.figure.id, setSeries: false } } : {}),
        },
        scales: {
          x: { time: false, distr: this.log ? 3 : 1, range: (plot, low, high) => this.span(low, high) },
          y: { range: (plot, low, high) => this.range(low, high) },
        },
        axes: [
          {
            ...axis, label: "cycle", size: 32, space: 45,
            values: (plot, places) => places.map(short),
            ...(this.log ? { splits: (plot, axis, low, high) => marks(low, high), filter: (plot, places) => places } : {}),
          },
          { ...axis, label: this.data.label || null, size: 52 },
        ],
        series: [{}, ...curves.flatMap((curve, place) => seriesOf(curve, this.shown[place]))],
        bands: curves.flatMap((curve, place) => [
          { series: [PARTS * place + 3, PARTS * place + 2], fill: curve.colour + "48" },
          { series: [PARTS * place + 5, PARTS * place + 4], fill: curve.colour + "1f" },
        ]),
        hooks: {
          setCursor: [(plot) => this.read(plot, panel)],
          setSelect: [(plot) => { if (plot.select.width > 0) this.zoom(true); }],
        },
      };
    }

    // No empty decades; some space around a single cycle.
    span(low, high) {
      return low < high ? [low, high] : [low / 2, high * 2];
    }

    // From 0 without zoom, as in the static image; with zoom, the visible part fills the height.
    range(low, high) {
      if (low === null || high === null) return [0, 1];
      if (this.shared && !this.zoomed) [low, high] = this.shared;
      const pad = (high - low || Math.abs(high) || 1) * 0.06;
      return this.zoomed ? [low - pad, high + pad] : [Math.min(0, low), high + pad];
    }

    draw() {
      this.plots.forEach((plot) => plot.destroy());
      this.zoom(false);
      const none = this.data.cycles.map(() => null);
      const columns = ({ curves }) => curves.flatMap((curve) => [curve.mean, ...EDGES.map((edge) => curve[edge] || none)]);
      this.shared = this.data.label && this.panels.length > 1 ? this.extent(this.panels.flatMap(columns)) : null;
      const places = this.panels.map((panel) => this.room(panel));
      this.place.replaceChildren(...places);
      this.plots = this.panels.map((panel, at) => {
        const plot = new uPlot(this.options(panel), [this.data.cycles, ...columns(panel)], places[at]);
        plot.over.addEventListener("dblclick", () => this.zoom(false), true);
        return plot;
      });
      this.plot = this.plots[0];
    }

    // The smallest and the largest value: panels of one quantity have the same axis.
    extent(columns) {
      const values = columns.flat().filter((value) => value !== null);
      return values.length ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))] : null;
    }

    room(panel) {
      const place = document.createElement("div");
      place.className = "panel";
      if (panel.title) {
        const title = document.createElement("h4");
        title.textContent = panel.title;
        place.append(title);
      }
      return place;
    }

    zoom(on) {
      this.zoomed = on;
      this.resetButton.disabled = !on;
    }

    reset() {
      this.draw();
    }

    resize() {
      if (!this.place.hidden && this.place.clientWidth > 0) this.plots.forEach((plot) => plot.setSize(this.size()));
    }

    switchAxis() {
      this.log = !this.log;
      this.axisButton.setAttribute("aria-pressed", String(this.log));
      this.draw();
    }

    swap() {
      const picture = this.picture.hidden;
      this.picture.hidden = !picture;
      this.place.hidden = this.legend.hidden = picture;
      this.axisButton.hidden = this.resetButton.hidden = picture;
      this.swapButton.setAttribute("aria-pressed", String(picture));
      if (!picture) this.resize();
    }

    fillLegend() {
      this.cycle = document.createElement("span");
      this.cycle.className = "cycle";
      this.values = [];
      this.buttons = this.data.curves.map((curve, place) => {
        const button = document.createElement("button");
        const name = document.createElement("span");
        const value = document.createElement("span");
        button.type = "button";
        button.className = "curve";
        button.setAttribute("aria-pressed", "true");
        name.textContent = curve.name;
        value.className = "value";
        button.append(swatch(curve), name, value);
        button.addEventListener("click", () => this.toggle(place, !this.shown[place]));
        this.values.push(value);
        return button;
      });
      this.legend.append(...this.buttons, ...(this.buttons.length > 2 ? this.allAndNone() : []), this.cycle);
    }

    allAndNone() {
      return [["all", true], ["none", false]].map(([word, shown]) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = word;
        button.textContent = word;
        button.addEventListener("click", () => this.buttons.forEach((_, place) => this.toggle(place, shown)));
        return button;
      });
    }

    toggle(place, shown) {
      this.shown[place] = shown;
      this.buttons[place].setAttribute("aria-pressed", String(shown));
      for (const plot of this.plots) {
        for (let part = 1; part <= PARTS; part += 1) plot.setSeries(PARTS * place + part, { show: shown });
      }
    }

    // The values under the pointer: of its panel, not of those that follow it.
    read(plot, panel) {
      if (this.panels.length > 1 && plot.cursor.event === null) return;
      const at = plot.cursor.idx;
      const where = panel.title ? panel.title + ", " : "";
      this.cycle.textContent = at === null || at === undefined ? "" : where + "cycle " + short(this.data.cycles[at]);
      panel.curves.forEach((curve, place) => {
        this.values[place].textContent = this.cycle.textContent && short(curve.mean[at]);
      });
    }
  }

  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    figure.chart = new Chart(figure, JSON.parse(document.getElementById(figure.dataset.chart).textContent));
    figure.chart.start();
  }
})();
