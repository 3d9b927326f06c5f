import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { idPattern } from '../../core/wire/protocol/topics.ts'
import { type Member, rulesOf } from '../identity/acl.ts'
import type { BrokerLogin } from './broker-secrets.ts'
import type { ControlBroker } from './control-broker.ts'
import { connectDynamicSecurity, type PluginCommand } from './dynamic-security.ts'
import { refuseAnonymousBroker } from './refuse-anonymous.ts'
import { type LastState, takeOver } from './take-over.ts'

export interface DrivenMosquittoOptions {
  readonly url: string
  /** Administrator of its dynamic-security plug-in. */
  readonly admin: BrokerLogin
  readonly fleet: string
  readonly bridge: string
  readonly lastState: (device: string) => LastState
  /** Of the first connection; default: 10 s. */
  readonly connectTimeoutMs?: number | undefined
  readonly clock: Clock
  readonly logger: Logger
}

const DefaultAccess = z.object({ acls: z.array(z.object({ acltype: z.string(), allow: z.boolean() })) })
const Roles = z.object({ roles: z.array(z.string()) })
const Clients = z.object({ clients: z.array(z.string()) })

/**
 * A mosquitto whose dynamic-security plug-in knows this bridge and the devices with a grant; each may do what `rulesOf` says.
 * Changing a client or its role makes mosquitto (2.0) disconnect it, so the password of a device is valid throughout its
 * grant. This process holds the wanted state, and restores it after every reconnect.
 * @throws BrimError BROKER_UNREACHABLE, NOT_AUTHORIZED, CONFIG_INVALID
 */
export async function driveMosquitto(options: DrivenMosquittoOptions): Promise<ControlBroker> {
  const { url, admin, fleet, bridge, lastState, clock, logger } = options
  const rolePrefix = `brim/${fleet}/device/`
  /** Device → password, of the devices with a grant. */
  const wanted = new Map<string, string>()
  /** Device → password that the broker has. */
  const applied = new Map<string, string>()
  /** Device → its latest change under way: the changes of one device are made in order. */
  const changes = new Map<string, Promise<void>>()
  const closing = new AbortController()
  const own: BrokerLogin = { username: `bridge-${bridge}`, password: newPassword() }
  const logFailure =
    (message: string, context: object = {}) =>
    (err: unknown) => {
      // After closing, failures do not matter: the next start of the bridge corrects the broker.
      if (!closing.signal.aborted) logger.error({ err, ...context }, message)
    }
  const security = await connectDynamicSecurity({
    url,
    clientId: `brim-admin-${bridge}`,
    admin,
    connectTimeoutMs: options.connectTimeoutMs,
    onReconnect: () => {
      reconcile().catch(logFailure('clients and roles of the broker not reconciled'))
    },
    clock,
    logger,
  })

  function inOrder(device: string, change: () => Promise<void>): Promise<void> {
    const done = (changes.get(device) ?? Promise.resolve()).catch(() => {}).then(change)
    changes.set(device, done)
    const forget = () => {
      if (changes.get(device) === done) changes.delete(device)
    }
    done.then(forget, forget)
    return done
  }

  /** Brings the broker's entry of a device to the wanted state. */
  async function apply(device: string, last = lastState(device)): Promise<void> {
    const password = wanted.get(device)
    if (applied.get(device) === password && password !== undefined) return
    if (password === undefined) return remove(device, last)
    await security.run(createCommands({ kind: 'device', id: device }, fleet, `${rolePrefix}${device}`, password))
    applied.set(device, password)
  }

  /** Changes the password first: the device is disconnected and cannot return while its retained state is corrected. */
  async function remove(device: string, last: LastState): Promise<void> {
    applied.delete(device)
    const [username, password] = [`device-${device}`, newPassword()]
    const [changed] = await security.run([{ command: 'setClientPassword', username, password }])
    if (changed?.error === undefined)
      await takeOver({ url, fleet, device, username, password, lastState: last, clock }).catch((err: unknown) => {
        logger.warn({ err, device }, 'device disconnected at the broker, but its retained state not set to lost')
      })
    await security.run([
      { command: 'deleteClient', username },
      { command: 'deleteRole', rolename: `${rolePrefix}${device}` },
    ])
  }

  async function createOwnClient(): Promise<void> {
    await security.run(createCommands({ kind: 'bridge', id: bridge }, fleet, `brim/${fleet}/bridge/${bridge}`, own.password))
  }

  /** Devices of the fleet that the broker lets connect. */
  async function devicesAtBroker(): Promise<string[]> {
    const [answer] = await security.run([{ command: 'listRoles', count: -1, offset: 0 }])
    const { roles } = Roles.parse(answer?.data)
    const ids = roles.filter((role) => role.startsWith(rolePrefix)).map((role) => role.slice(rolePrefix.length))
    return ids.filter((id) => idPattern.test(id))
  }

  /** The broker stores its clients on disk; where the file was lost, they are created again. */
  async function reconcile(): Promise<void> {
    const [answer] = await security.run([{ command: 'listClients', count: -1, offset: 0 }])
    const present = new Set(Clients.parse(answer?.data).clients)
    if (!present.has(own.username)) await createOwnClient()
    for (const device of applied.keys()) if (!present.has(`device-${device}`)) applied.delete(device)
    const others = (await devicesAtBroker()).filter((device) => !wanted.has(device))
    await Promise.all([...wanted.keys(), ...others].map((device) => inOrder(device, () => apply(device))))
  }

  try {
    await refuseAnonymousBroker(url)
    const [answer] = await security.run([{ command: 'getDefaultACLAccess' }])
    const { acls } = DefaultAccess.parse(answer?.data)
    const open = acls.find(({ acltype, allow }) => allow && (acltype === 'publishClientSend' || acltype === 'subscribe'))
    if (open)
      throw new BrimError('CONFIG_INVALID', `the broker ${url} allows ${open.acltype} by default`, {
        hint: `mosquitto_ctrl dynsec setDefaultACLAccess ${open.acltype} deny`,
      })
    await createOwnClient()
    // Devices of an earlier start of the bridge, whose passwords are lost. Their last states are read now: they are of that time.
    for (const device of await devicesAtBroker()) {
      const last = lastState(device)
      inOrder(device, () => apply(device, last)).catch(logFailure('device not removed from the broker', { device }))
    }
  } catch (error) {
    await security.close()
    throw error
  }
  return {
    url,
    external: true,
    login: own,
    async admit(device) {
      const password = newPassword()
      wanted.set(device, password)
      // During an outage no device can connect; `reconcile` runs after it.
      if (security.connected) await inOrder(device, () => apply(device))
      return { password }
    },
    disconnect(device) {
      wanted.delete(device)
      if (!security.connected) return
      inOrder(device, () => apply(device)).catch(logFailure('device not removed from the broker', { device }))
    },
    dropUnproven() {},
    async close() {
      closing.abort()
      await security.close()
      await Promise.allSettled(changes.values())
    },
  }
}

/** Replaces the client and its role, if there are any. */
function createCommands(member: Member, fleet: string, rolename: string, password: string): PluginCommand[] {
  const { publish, subscribe } = rulesOf(member, fleet)
  const username = `${member.kind}-${member.id}`
  const acls = [
    ...publish.map((topic) => ({ acltype: 'publishClientSend', topic, allow: true })),
    ...subscribe.map((topic) => ({ acltype: 'subscribePattern', topic, allow: true })),
  ]
  return [
    { command: 'deleteClient', username },
    { command: 'deleteRole', rolename },
    { command: 'createRole', rolename, acls },
    { command: 'createClient', username, clientid: username, password, roles: [{ rolename }] },
  ]
}

const newPassword = () => randomBytes(24).toString('base64url')
