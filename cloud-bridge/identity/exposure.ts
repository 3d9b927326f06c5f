import { BrimError } from '../../core/base/errors.ts'
import { isLoopback } from '../../core/base/loopback.ts'
import type { BrokerConfig } from '../config.ts'

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
  /** A broker that is not this process's own. */
  readonly broker?: BrokerConfig | undefined
}

/**
 * Whether those who connect are asked for a proof: beyond loopback always; on loopback where it was said, or where
 * a device has enrolled.
 * @throws BrimError LISTEN_REFUSED, CONFIG_INVALID where that host cannot be listened on like this
 */
export function requiresProof({ broker, ...exposure }: Exposure): boolean {
  const knowsDevices = broker?.adminFile !== undefined || broker?.hookSecretFile !== undefined
  const asked = listenerRequiresProof(knowsDevices ? { ...exposure, auth: exposure.auth ?? true } : exposure)
  if (broker) checkBroker(new URL(broker.url), { ...exposure, asked, knowsDevices })
  return asked
}

function checkBroker(
  url: URL,
  { host, plaintext, asked, knowsDevices }: Pick<Exposure, 'host' | 'plaintext'> & { asked: boolean; knowsDevices: boolean },
): void {
  const isHere = isLoopback(url.hostname)
  if (asked !== knowsDevices)
    throw new BrimError(
      'CONFIG_INVALID',
      asked ? `nothing tells the broker ${url.host} which devices to let in` : `the broker ${url.host} asks devices for a proof`,
      {
        hint: asked
          ? '--broker-admin-file (mosquitto) or --broker-hook-secret-file (EMQX, VerneMQ): docs/brokers.md'
          : 'leave --no-auth away',
      },
    )
  if (!isHere && !asked)
    throw new BrimError('LISTEN_REFUSED', `the broker ${url.host} is not used without authentication`, {
      hint: '--broker-admin-file (mosquitto) or --broker-hook-secret-file (EMQX, VerneMQ): docs/brokers.md',
    })
  if (!isHere && url.protocol === 'mqtt:' && !plaintext)
    throw new BrimError('LISTEN_REFUSED', `to the broker ${url.host} everything would travel in plain text`, {
      hint: 'use mqtts://; or say --plaintext where the network is your own',
    })
  if (isHere && !isLoopback(host))
    throw new BrimError('CONFIG_INVALID', `${url.hostname} is no address that devices elsewhere can connect to`, {
      hint: 'name the broker by the address that devices use',
    })
}

function listenerRequiresProof({ host, auth, plaintext, tls, dataUrl, enrolled }: Exposure): boolean {
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
