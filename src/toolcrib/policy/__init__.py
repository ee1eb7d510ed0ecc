"""May this call run?"""
