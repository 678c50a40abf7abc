"""The services of the deployment; one folder each, one process each."""
