"""From which confidence on a source answers, in which order, and when it asks."""
