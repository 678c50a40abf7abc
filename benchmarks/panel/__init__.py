"""How often the panel is right, beside its members, and how long a slow member holds it up."""
