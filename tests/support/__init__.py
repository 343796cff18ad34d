"""What tests share: disks, crashes, journals, servers, programs."""
