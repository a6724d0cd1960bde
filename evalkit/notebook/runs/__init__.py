"""The wizard and the view of LightEval's runs."""
