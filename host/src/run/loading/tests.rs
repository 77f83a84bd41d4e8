mod grants;
