"""Systems of other packages in processes of their own, which reach documents and models only through a socket."""
