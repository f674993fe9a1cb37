"""One kernel against one other in seconds: is it right, is it faster, by how much, and what holds it up?"""
