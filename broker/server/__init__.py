"""The broker as a server: what programs and operators reach over the network. Edge only: the kernel decides."""
