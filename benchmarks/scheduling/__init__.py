"""How well a run is divided among many workers, by durations recorded once."""
