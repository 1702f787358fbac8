"""Clients of anabranch: the verbs on workflows and runs, on a database or on a server.

`Gateway` names the verbs (`gateway`). `LocalGateway` (`local`) asks the service of this very process,
`RemoteGateway` (`remote`, `caller`) a server over REST. `Client` and `SyncClient` are what programs use;
the command line uses the same gateways.

Imports nothing: a client of a server must not need what a database needs.
"""
