/** The broker of the control plane, in this process or elsewhere, as the bridge drives it. */
export interface ControlBroker {
  /** As devices are to reach it: mqtt://host:port, or mqtts: */
  readonly url: string
  /** Another program's, which shows a certificate of its own. */
  readonly external: boolean
  /** What the bridge itself connects with; undefined: its own token, where a proof is asked for at all. */
  readonly password?: string | undefined
  /**
   * A device has a session from now on. @returns its password for as long as that lasts; undefined: its tokens are what counts
   */
  admit(device: string): Promise<string | undefined>
  /** The session is over: ends the connection of this device, and leaves its state as lost. */
  cut(device: string): void
  close(): Promise<void>
}
