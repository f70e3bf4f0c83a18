"""A run over HTTP, and the page that explores it.

``serve`` starts the server; it needs the packages of the extra ``serve``, which are imported only
then.  ``bilink.serving.app.make_app`` makes the ASGI application for another server.
"""

from bilink.serving.server import serve

__all__ = ["serve"]
