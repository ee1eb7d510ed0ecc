"""The languages of the providers, without IO: a history is encoded as a request, the bytes of a reply are decoded."""
