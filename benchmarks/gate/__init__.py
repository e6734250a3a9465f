"""False alarms and missed losses of the gate, on models that were really trained."""
