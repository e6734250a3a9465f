"""The report for people: one HTML file made from the run record alone."""
