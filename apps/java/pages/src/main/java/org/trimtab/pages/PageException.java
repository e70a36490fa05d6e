package org.trimtab.pages;

/** The page cannot be made, for a reason that whoever counts failures knows by its kind. */
public final class PageException extends Exception {
    private static final long serialVersionUID = 1L;

    /** The reason. */
    public final Kind kind;

    /** Says why, in words for people. */
    public PageException(Kind kind, String message) {
        super(message);
        this.kind = kind;
    }

    PageException(Kind kind, Exception cause) {
        super(String.valueOf(cause.getMessage()), cause);
        this.kind = kind;
    }
}
