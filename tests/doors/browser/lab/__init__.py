"""What runs in JupyterLab: all of it in one worker, so that JupyterLab is started and loaded once."""
