"""Which record comes when: operators on numbers of records, which never look into one."""
