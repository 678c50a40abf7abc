"""What a face does and which emotion that shows: action units from landmarks and blendshapes, classes from both."""
