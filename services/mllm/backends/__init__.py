"""Back-ends: one module each; the module's name is the back-end's."""
