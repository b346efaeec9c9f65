/** Where does a request say what it is to be answered with? docs/scripts.md. */
export const ORDER_HEADER = "x-understudy";
