import { BrimError } from '../../core/kit/base/errors.ts'
import { isLoopback } from '../../core/kit/base/loopback.ts'
import { brokerNodes, shownBroker } from '../../core/wire/protocol/mqtt-url.ts'
import type { BrokerConfig } from '../config.ts'

export interface Exposure {
  readonly host: string
  /** Whether callers must prove their identity; undefined: decided by host and enrolled devices. */
  readonly auth?: boolean | undefined
  /** Whether plain text is allowed beyond this machine. */
  readonly plaintext: boolean
  /** Present: all listeners speak TLS. */
  readonly tls?: unknown
  readonly dataUrl?: string | undefined
  /** Reverse proxies in front of the listener. */
  readonly trustedProxies?: readonly string[] | undefined
  /** Whether a device has ever enrolled here. */
  readonly enrolled: boolean
  /** An external broker. */
  readonly broker?: BrokerConfig | undefined
}

const enforcement = '--broker-admin-file (mosquitto, NATS) or --broker-hook-secret-file (EMQX, VerneMQ): docs/brokers.md'

/**
 * Whether callers must prove their identity: beyond loopback and behind a proxy always; on loopback by configuration, or once a
 * device has enrolled, or where the bridge announces an address to devices elsewhere.
 * @throws BrimError LISTEN_REFUSED, CONFIG_INVALID where these addresses cannot be used safely
 */
export function requiresAuth({ broker, ...exposure }: Exposure): boolean {
  const enforces = broker?.adminFile !== undefined || broker?.hookSecretFile !== undefined
  const required = listenerRequiresAuth(enforces ? { ...exposure, auth: exposure.auth ?? true } : exposure)
  if (broker) for (const node of brokerNodes(broker.url)) checkBroker(new URL(node), { ...exposure, required, enforces })
  return required
}

/** Why no device can enrol: proof of identity would be required from then on, and the broker could not require it. */
export function enrolmentRefusal({ auth, broker }: Pick<Exposure, 'auth' | 'broker'>): BrimError | undefined {
  const accepts = broker !== undefined && broker.adminFile === undefined && broker.hookSecretFile === undefined
  if (!accepts || auth === false) return undefined
  return new BrimError('ENROLL_REFUSED', `the broker ${shownBroker(broker.url)} of this bridge accepts every client`, {
    hint: `the bridge takes ${enforcement}`,
  })
}

interface BrokerExposure extends Pick<Exposure, 'host' | 'plaintext'> {
  readonly required: boolean
  /** Whether the broker learns from the bridge which devices may connect. */
  readonly enforces: boolean
}

function checkBroker(url: URL, { host, plaintext, required, enforces }: BrokerExposure): void {
  const isLocal = isLoopback(url.hostname)
  if (required && !enforces)
    throw new BrimError('CONFIG_INVALID', `the broker ${url.host} cannot tell which devices may connect`, { hint: enforcement })
  if (!required && enforces)
    throw new BrimError('CONFIG_INVALID', `the broker ${url.host} requires authentication, which --no-auth turns off`, {
      hint: 'leave out --no-auth',
    })
  if (!isLocal && !required)
    throw new BrimError('LISTEN_REFUSED', `the broker ${url.host} is not used without authentication`, { hint: enforcement })
  if (!isLocal && url.protocol === 'mqtt:' && !plaintext)
    throw new BrimError('LISTEN_REFUSED', `traffic to the broker ${url.host} would be plain text`, {
      hint: 'use mqtts://; or, on a network of your own, --plaintext',
    })
  if (isLocal && !isLoopback(host))
    throw new BrimError('CONFIG_INVALID', `other machines cannot connect to the broker's address ${url.hostname}`, {
      hint: 'name the broker by the address that devices use',
    })
}

function listenerRequiresAuth({ host, auth, plaintext, tls, dataUrl, trustedProxies, enrolled }: Exposure): boolean {
  const isBehindProxy = trustedProxies !== undefined
  // Devices elsewhere are expected.
  const isAnnounced = dataUrl !== undefined && !isLoopback(new URL(dataUrl).hostname)
  if (isLoopback(host) && !isBehindProxy) return auth ?? (enrolled || isAnnounced)
  if (auth === false)
    throw new BrimError(
      'LISTEN_REFUSED',
      `the bridge does not listen ${isBehindProxy ? 'behind a proxy' : `on ${host}`} without authentication`,
      { hint: 'leave out --no-auth; devices enrol with "brim agent enroll"' },
    )
  if (isLoopback(host)) return true
  if (tls === undefined && !plaintext)
    throw new BrimError('LISTEN_REFUSED', `traffic on ${host} would be plain text`, {
      hint: 'give --tls-cert and --tls-key; or, on a network of your own, --plaintext',
    })
  if ((host === '0.0.0.0' || host === '::') && dataUrl === undefined)
    throw new BrimError('CONFIG_INVALID', `devices cannot connect to the address ${host}`, {
      hint: 'listen on one address; or give --data-url ws://<address>:<port>/v1/data',
    })
  return true
}
