"""How a model is updated, and what that costs."""
