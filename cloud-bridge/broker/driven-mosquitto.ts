import { randomBytes } from 'node:crypto'
import { connect } from 'mqtt'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { idPattern } from '../../core/protocol/topics.ts'
import { rulesOf } from '../identity/acl.ts'
import type { Login } from './broker-secrets.ts'
import type { ControlBroker } from './control-broker.ts'
import { type Command, connectDynamicSecurity } from './dynamic-security.ts'
import { type LastState, takeOver } from './take-over.ts'

const probeTimeoutMs = 5_000

export interface DrivenMosquittoOptions {
  readonly url: string
  /** Of its dynamic-security plug-in. */
  readonly admin: Login
  readonly fleet: string
  readonly bridge: string
  /** What this bridge has heard last of a device. */
  readonly lastState: (device: string) => LastState
  /** How long the first connection may take; 10 s by default. */
  readonly connectTimeoutMs?: number | undefined
  readonly logger: Logger
}

const DefaultAccess = z.object({ acls: z.array(z.object({ acltype: z.string(), allow: z.boolean() })) })
const Roles = z.object({ roles: z.array(z.string()) })
const Clients = z.object({ clients: z.array(z.string()) })

/**
 * A mosquitto whose dynamic-security plug-in knows this bridge and the devices that have a session at it, and lets each do
 * what `rulesOf` says. Changing a client or its role makes mosquitto (2.0) disconnect it, so a device's password stands for
 * as long as its session does. What shall be is kept here; what is not so at the broker is made so, also when the broker
 * comes back and has forgotten.
 * @throws BrimError BROKER_UNREACHABLE, NOT_AUTHORIZED, CONFIG_INVALID
 */
export async function driveMosquitto(options: DrivenMosquittoOptions): Promise<ControlBroker> {
  const { url, admin, fleet, bridge, lastState, logger } = options
  const rolePrefix = `brim/${fleet}/device/`
  /** Device → password, of those that have a session. */
  const wanted = new Map<string, string>()
  /** The same, as far as the broker has it. */
  const known = new Map<string, string>()
  /** Device → the last of what is being done about it: one thing after the other. */
  const lanes = new Map<string, Promise<void>>()
  const closing = new AbortController()
  const own: Login = { username: `bridge-${bridge}`, password: newPassword() }
  const complain =
    (message: string, context: object = {}) =>
    (err: unknown) => {
      // What is left undone then is done when the bridge starts again.
      if (!closing.signal.aborted) logger.error({ err, ...context }, message)
    }
  const security = await connectDynamicSecurity({
    url,
    clientId: `brim-admin-${bridge}`,
    admin,
    connectTimeoutMs: options.connectTimeoutMs,
    onReturn: () => {
      comeBack().catch(complain('what the broker knows of the fleet is not as it shall be'))
    },
    logger,
  })

  const inLane = (device: string, work: () => Promise<void>): Promise<void> => {
    const done = (lanes.get(device) ?? Promise.resolve()).catch(() => {}).then(work)
    lanes.set(device, done)
    const leave = () => {
      if (lanes.get(device) === done) lanes.delete(device)
    }
    done.then(leave, leave)
    return done
  }

  /** Makes the broker know of this device what shall be known. @param said as `lastState` */
  async function settle(device: string, said = lastState(device)): Promise<void> {
    const password = wanted.get(device)
    if (known.get(device) === password && password !== undefined) return
    if (password === undefined) await forget(device, said)
    else await security.run(introduce({ kind: 'device', id: device }, fleet, `${rolePrefix}${device}`, password))
    if (password !== undefined) known.set(device, password)
  }

  /** Another password first: whoever is connected is cut off and cannot come back while its state is put right. */
  async function forget(device: string, said: LastState): Promise<void> {
    known.delete(device)
    const [username, password] = [`device-${device}`, newPassword()]
    const [changed] = await security.run([{ command: 'setClientPassword', username, password }])
    if (changed?.error === undefined)
      await takeOver({ url, fleet, device, username, password, lastState: said }).catch((err: unknown) => {
        logger.warn({ err, device }, 'device cut off, but its state may still say that it is there')
      })
    await security.run([
      { command: 'deleteClient', username },
      { command: 'deleteRole', rolename: `${rolePrefix}${device}` },
    ])
  }

  async function introduceSelf(): Promise<void> {
    await security.run(introduce({ kind: 'bridge', id: bridge }, fleet, `brim/${fleet}/bridge/${bridge}`, own.password))
  }

  /** Devices of the fleet that the broker lets in. */
  async function devicesThere(): Promise<string[]> {
    const [answer] = await security.run([{ command: 'listRoles', count: -1, offset: 0 }])
    const { roles } = Roles.parse(answer?.data)
    const ids = roles.filter((role) => role.startsWith(rolePrefix)).map((role) => role.slice(rolePrefix.length))
    return ids.filter((id) => idPattern.test(id))
  }

  /** The broker keeps what it was told, on disk; where that was lost, it is told again. */
  async function comeBack(): Promise<void> {
    const [answer] = await security.run([{ command: 'listClients', count: -1, offset: 0 }])
    const there = new Set(Clients.parse(answer?.data).clients)
    if (!there.has(own.username)) await introduceSelf()
    for (const device of known.keys()) if (!there.has(`device-${device}`)) known.delete(device)
    const others = (await devicesThere()).filter((device) => !wanted.has(device))
    await Promise.all([...wanted.keys(), ...others].map((device) => inLane(device, () => settle(device))))
  }

  try {
    await refuseOpenBroker(url)
    const [answer] = await security.run([{ command: 'getDefaultACLAccess' }])
    const { acls } = DefaultAccess.parse(answer?.data)
    const open = acls.find(({ acltype, allow }) => allow && (acltype === 'publishClientSend' || acltype === 'subscribe'))
    if (open)
      throw new BrimError('CONFIG_INVALID', `the broker ${url} allows ${open.acltype} where no rule says otherwise`, {
        hint: `mosquitto_ctrl dynsec setDefaultACLAccess ${open.acltype} deny`,
      })
    await introduceSelf()
    // Of a bridge before this one: nobody knows their passwords any more. What is known of them now is of that time too.
    for (const device of await devicesThere()) {
      const said = lastState(device)
      inLane(device, () => settle(device, said)).catch(complain('not cut off at the broker', { device }))
    }
  } catch (error) {
    await security.close()
    throw error
  }
  return {
    url,
    external: true,
    password: own.password,
    async admit(device) {
      const password = newPassword()
      wanted.set(device, password)
      // A broker that is away lets nobody in anyway, and is told when it is back.
      if (security.connected) await inLane(device, () => settle(device))
      return password
    },
    disconnect(device) {
      wanted.delete(device)
      if (!security.connected) return
      inLane(device, () => settle(device)).catch(complain('not cut off at the broker', { device }))
    },
    async close() {
      closing.abort()
      await security.close()
      await Promise.allSettled(lanes.values())
    },
  }
}

/** A client with one role, in the place of any that is there. */
function introduce(who: { kind: 'device' | 'bridge'; id: string }, fleet: string, rolename: string, password: string): Command[] {
  const { publish, subscribe } = rulesOf(who, fleet)
  const username = `${who.kind}-${who.id}`
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

/** @throws BrimError CONFIG_INVALID where it lets in who proves nothing */
async function refuseOpenBroker(url: string): Promise<void> {
  const client = connect(url, { protocolVersion: 4, reconnectPeriod: 0, connectTimeout: probeTimeoutMs })
  const letIn = await new Promise<boolean>((resolve) => {
    client.once('connect', () => resolve(true))
    client.on('error', () => resolve(false))
    client.once('close', () => resolve(false))
  })
  client.end(true)
  if (letIn)
    throw new BrimError('CONFIG_INVALID', `the broker ${url} lets in who proves nothing`, {
      hint: 'its configuration must say "allow_anonymous false"',
    })
}
