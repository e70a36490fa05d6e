package org.trimtab.rubis;

import java.sql.SQLException;
import org.trimtab.pages.Database;
import org.trimtab.pages.Page;
import org.trimtab.pages.PageException;
import org.trimtab.pages.Question;

/** In which category does the user want to sell something? */
public final class SelectCategoryToSellItem extends RubisPage {
    private static final long serialVersionUID = 1L;

    /** For {@code web.xml}. */
    public SelectCategoryToSellItem() {
        super("SelectCategoryToSellItem");
    }

    @Override
    protected void answer(Question question, Database database, Page page) throws PageException, SQLException {
        int user = login(question, database);
        page.heading("Categories").says("user", user);
        page.says("n", BrowseCategories.list(database, page, "sell-item/", "/" + user));
    }
}
