"""Model calls behind one seam: a provider-neutral request goes in, a reply comes out.

`messages` and `errors` are pure and may be imported anywhere. The model library itself is
imported by `library` alone, and only when a model that needs it is first asked; importing this
package loads none of it, so the web process stays small.
"""
