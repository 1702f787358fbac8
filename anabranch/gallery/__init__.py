"""The gallery: templates of workflows, each a small project, with a picture."""
