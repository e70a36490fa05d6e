package org.trimtab.pages;

import java.sql.SQLException;

/** {@code POST /APP/renew}: the data was replaced; asked for by whoever replaced it. */
public final class RenewServlet extends PageServlet {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}, which gives the application's name by its path. */
    public RenewServlet() {
        super("site", "Renew", false);
    }

    @Override
    protected void begin(Page page) {
        // No images: no browser asks for it.
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        if (!question.isPost()) {
            throw new PageException(Kind.REQUEST, "it is asked for by a POST");
        }
        Site.renew();
    }
}
