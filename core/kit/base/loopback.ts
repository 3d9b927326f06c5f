/** Whether only this machine can reach the address: localhost, 127.0.0.0/8, ::1 (with or without brackets). */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|\[::1\]|::1|127(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3})$/.test(host)
}
