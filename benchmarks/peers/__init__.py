"""Other libraries' ways to question a long text, on the contexts and at the endpoint that ConvMem is measured with.

They are no part of ConvMem: ``setup`` makes an environment for them here. Every one runs as its library offers it, in a
process of its own, and speaks to a meter that passes its calls on to the endpoint and counts them. What comes of it is
written as rows that ``convmem bench report`` shows beside the others.
"""
