package org.trimtab.tpcw;

import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** Who asks for a page, and with which cart; 0 for nobody and none. */
final class Visit {
    int customer;
    int cart;

    Visit(Question question) throws PageException {
        customer = question.has("customer") ? question.number("customer") : 0;
        cart = question.has("cart") ? question.number("cart") : 0;
    }
}
