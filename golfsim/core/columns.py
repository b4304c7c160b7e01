"""The columns of logs."""

COLUMNS = ("run", "seed", "cycle", "layer", "metric", "value")
ABOUT_LAYERS = ("judged", "label")  # of loaded logs: the layer whose model is judged, and the label of the row's layer
