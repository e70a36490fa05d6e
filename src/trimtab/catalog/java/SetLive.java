import com.sun.tools.attach.VirtualMachine;
import javax.management.Attribute;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanOperationInfo;
import javax.management.MBeanParameterInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Sets attributes of the management beans of a Java program that runs on this machine, or calls their operations. Arguments: its
 * process number, then pairs of BEAN and NAME=VALUE or NAME(VALUE,VALUE); none only shows that the program lets us in. Ends with
 * exit code 1 at the first that is refused, and says why.
 */
public final class SetLive {
    private SetLive() {}

    public static void main(String[] words) throws Exception {
        VirtualMachine program = VirtualMachine.attach(words[0]);
        String address;
        try {
            address = program.startLocalManagementAgent();
        } finally {
            program.detach();
        }
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection beans = connector.getMBeanServerConnection();
            for (int i = 1; i + 1 < words.length; i += 2) {
                try {
                    change(beans, new ObjectName(words[i]), words[i + 1]);
                } catch (Exception error) {
                    Throwable cause = error.getCause() != null ? error.getCause() : error;
                    System.err.println(words[i] + " " + words[i + 1] + ": " + cause);
                    System.exit(1);
                }
            }
        }
    }

    private static void change(MBeanServerConnection beans, ObjectName bean, String text) throws Exception {
        int bracket = text.indexOf('(');
        if (bracket < 0) {
            int equals = text.indexOf('=');
            set(beans, bean, text.substring(0, equals), text.substring(equals + 1));
        } else {
            call(beans, bean, text.substring(0, bracket), text.substring(bracket + 1, text.length() - 1).split(","));
        }
    }

    private static void set(MBeanServerConnection beans, ObjectName bean, String name, String text) throws Exception {
        for (MBeanAttributeInfo attribute : beans.getMBeanInfo(bean).getAttributes()) {
            if (attribute.getName().equals(name)) {
                beans.setAttribute(bean, new Attribute(name, parsed(attribute.getType(), text)));
                return;
            }
        }
        throw new IllegalArgumentException("there is no such attribute");
    }

    private static void call(MBeanServerConnection beans, ObjectName bean, String name, String[] texts) throws Exception {
        for (MBeanOperationInfo operation : beans.getMBeanInfo(bean).getOperations()) {
            MBeanParameterInfo[] parameters = operation.getSignature();
            if (operation.getName().equals(name) && parameters.length == texts.length) {
                Object[] values = new Object[texts.length];
                String[] types = new String[texts.length];
                for (int i = 0; i < texts.length; i++) {
                    types[i] = parameters[i].getType();
                    values[i] = parsed(types[i], texts[i].trim());
                }
                beans.invoke(bean, name, values, types);
                return;
            }
        }
        throw new IllegalArgumentException("there is no such operation");
    }

    private static Object parsed(String type, String text) {
        switch (type) {
            case "int", "java.lang.Integer":
                return Integer.valueOf(text);
            case "long", "java.lang.Long":
                return Long.valueOf(text);
            case "double", "java.lang.Double":
                return Double.valueOf(text);
            case "boolean", "java.lang.Boolean":
                return Boolean.valueOf(text);
            default:
                return text;
        }
    }
}
