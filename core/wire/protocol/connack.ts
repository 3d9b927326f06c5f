/** MQTT 3.1.1 CONNACK return code by which a bridge refuses a device whose id another one uses: identifier rejected. */
export const idTaken = 2

export const isIdTaken = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === idTaken

/** MQTT 3.1.1 CONNACK return codes: bad user name or password, not authorized. */
const refusals: readonly unknown[] = [4, 5]

/** Whether a broker has refused the login, in contrast to being unreachable. `error`: as MQTT.js reports it. */
export const isLoginRefused = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && refusals.includes(error.code)
