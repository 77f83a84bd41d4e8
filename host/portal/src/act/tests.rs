mod adopt;
