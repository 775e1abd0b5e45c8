"""What a release is made of: files, the plugin of kubectl, the image, and the workflow that makes them."""
