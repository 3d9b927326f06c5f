import { BrimError } from '../../core/base/errors.ts'
import { isLoopback } from '../../core/base/loopback.ts'

export interface Exposure {
  readonly host: string
  /** Whether those who connect must prove who they are; undefined: not said. */
  readonly auth?: boolean | undefined
  /** Whether plain text beyond this machine was asked for. */
  readonly plaintext: boolean
  /** Whether all listeners speak TLS. */
  readonly tls?: unknown
  readonly dataUrl?: string | undefined
  /** Whether a device was ever enrolled here. */
  readonly enrolled: boolean
}

/**
 * Whether those who connect are asked for a proof: beyond loopback always; on loopback where it was said, or where
 * a device has enrolled.
 * @throws BrimError LISTEN_REFUSED, CONFIG_INVALID where that host cannot be listened on like this
 */
export function requiresProof({ host, auth, plaintext, tls, dataUrl, enrolled }: Exposure): boolean {
  if (isLoopback(host)) return auth ?? enrolled
  if (auth === false)
    throw new BrimError('LISTEN_REFUSED', `the bridge does not listen on ${host} without authentication`, {
      hint: 'leave --no-auth away; devices enrol with "brim agent enroll"',
    })
  if (tls === undefined && !plaintext)
    throw new BrimError('LISTEN_REFUSED', `on ${host} everything would travel in plain text`, {
      hint: 'give --tls-cert and --tls-key; or say --plaintext where the network is your own',
    })
  if ((host === '0.0.0.0' || host === '::') && dataUrl === undefined)
    throw new BrimError('CONFIG_INVALID', `${host} is no address that devices can connect to`, {
      hint: 'name the address to listen on, or say --data-url ws://<address>:<port>/v1/data',
    })
  return true
}
