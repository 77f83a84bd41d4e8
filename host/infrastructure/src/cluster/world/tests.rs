mod edit;
