"""The order of records: operators on their numbers, which never look into one."""
