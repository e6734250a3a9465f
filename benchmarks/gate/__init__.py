"""False alarms and missed losses of the gate, on trained models."""
