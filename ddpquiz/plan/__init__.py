"""Memory, traffic and time of a training job, computed; and the page that shows them."""
