"""Sets stored numbers side by side and says what their differences mean; measures nothing."""
