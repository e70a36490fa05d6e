package org.trimtab.pages;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;

/** The text of a page as it grows, and its mark; see PAGES.md. */
public final class Page {
    private static final int USUAL_LENGTH = 8192;

    private final String application;
    private final String state;
    private final StringBuilder text = new StringBuilder(USUAL_LENGTH);
    private final StringBuilder facts = new StringBuilder();
    private String outcome = "ok";

    Page(String application, String state) {
        this.application = application;
        this.state = state;
        text.append("<!DOCTYPE html>\n<html><head><title>").append(application).append(": ").append(state);
        text.append("</title></head>\n<body>\n");
    }

    /** A heading. */
    public Page heading(String words) {
        text.append("<h2>");
        return words(words).html("</h2>\n");
    }

    /** HTML as it stands. */
    public Page html(String html) {
        text.append(html);
        return this;
    }

    /** A number. */
    public Page number(long number) {
        text.append(number);
        return this;
    }

    /** An amount with two decimals. */
    public Page amount(double amount) {
        long cents = Math.round(amount * 100);
        text.append(cents / 100).append('.');
        if (cents % 100 < 10) {
            text.append('0');
        }
        text.append(cents % 100);
        return this;
    }

    /** Words of somebody else's. */
    public Page words(String words) {
        for (int index = 0; index < words.length(); index++) {
            char each = words.charAt(index);
            switch (each) {
                case '<' -> text.append("&lt;");
                case '>' -> text.append("&gt;");
                case '&' -> text.append("&amp;");
                case '"' -> text.append("&quot;");
                default -> text.append(each);
            }
        }
        return this;
    }

    /** A link; the path starts behind the application's name. */
    public Page link(String path, String label) {
        text.append("<a href=\"/").append(application).append('/').append(path).append("\">");
        return words(label).html("</a>");
    }

    /** An image; the path starts behind the application's name. */
    public Page image(String path) {
        text.append("<img src=\"/").append(application).append('/').append(path).append("\">\n");
        return this;
    }

    /** A row of a table with its first cells begun; ended by {@code endRow}. */
    public Page cell() {
        text.append("<td>");
        return this;
    }

    /** Begins the page's form. */
    public Page form(String path) {
        text.append("<form action=\"/").append(application).append('/').append(path).append("\" method=\"post\">\n");
        return this;
    }

    /** A field that the browser sends back as it is. */
    public Page hidden(String name, String value) {
        text.append("<input type=\"hidden\" name=\"").append(name).append("\" value=\"").append(value).append("\">\n");
        return this;
    }

    /** A field that the browser sends back as it is. */
    public Page hidden(String name, long value) {
        return hidden(name, Long.toString(value));
    }

    /** Fields that a person fills in, and the end of the form. */
    public Page fields(String... names) {
        for (String name : names) {
            text.append(name).append(": <input type=\"text\" name=\"").append(name).append("\"><br>\n");
        }
        text.append("<input type=\"submit\">\n</form>\n");
        return this;
    }

    /** A fact of the mark. */
    public Page says(String name, long value) {
        facts.append(' ').append(name).append('=').append(value);
        return this;
    }

    /** There is nothing to show or to do. */
    public void sorry(String reason, String words) {
        outcome = "sorry reason=" + reason;
        heading("Sorry").html("<p>").words(words).html("</p>\n");
    }

    /** A step of a path. */
    public static String step(String words) {
        return URLEncoder.encode(words, StandardCharsets.UTF_8).replace("+", "%20");
    }

    byte[] bytes() {
        text.append("</body></html>\n<!-- ").append(application).append(' ').append(state).append(' ').append(outcome);
        text.append(facts).append(" -->\n");
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    static byte[] failed(String application, String state, Kind kind, String words) {
        String name = kind.word();
        Page page = new Page(application, state);
        page.heading("Error").html("<p>").words(name + ": " + words).html("</p>\n</body></html>\n");
        page.text.append("<!-- error kind=").append(name).append(" app=").append(application);
        page.text.append(" state=").append(state).append(" -->\n");
        return page.text.toString().getBytes(StandardCharsets.UTF_8);
    }
}
