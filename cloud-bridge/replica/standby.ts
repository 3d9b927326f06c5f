import { type Closers, createClosers } from '../../core/kit/base/closers.ts'
import { approvedKeysIn } from '../identity/device-store.ts'
import { openKeyStore } from '../identity/key-store.ts'
import { openNetwork } from '../parts/network.ts'
import { type FleetRecord, firstPlace, type Lease, type Place, type Primary } from './fleet-database.ts'
import { type Forwarder, startForwarder } from './forwarder.ts'
import { announce, isUnavailable, type NodeContext, requireFleetServed, selfOf } from './node-context.ts'
import { ownVersions, ReplicaFiles } from './replica-files.ts'

/** Interval at which a standby looks for new rows and for the end of the lease. */
const pollMs = 500
const identityFile = 'identity.sqlite'
/** Of a new lease: the rest of the rows is copied, and the files are migrated, before it is renewed. */
const takeOverMs = 15_000

/** What the next primary begins with. */
export interface Taken {
  /** The node that has taken it. */
  readonly self: Primary
  readonly lease: Lease
  /** With all that the primary before has stored. */
  readonly files: ReplicaFiles
  readonly versions: FleetRecord['versions']
}

/** A node without the lease: it forwards requests to the primary, and keeps a copy of what that stores. */
export class Standby {
  readonly self: Primary
  readonly port: number
  readonly #context: NodeContext
  readonly #closers: Closers
  readonly #files: ReplicaFiles
  readonly #forwarder: Forwarder
  #record: FleetRecord
  #place: Place = firstPlace
  /** Identities have changed in the copy; an interrupted copy leaves that to the next one. */
  #mustLearn = false

  private constructor(context: NodeContext, closers: Closers, files: ReplicaFiles, record: FleetRecord, forwarder: Forwarder) {
    this.#context = context
    this.#closers = closers
    this.#files = files
    this.#record = record
    this.#forwarder = forwarder
    this.self = selfOf(context, forwarder.url)
    this.port = forwarder.port
  }

  /** @throws BrimError DATABASE_UNAVAILABLE, STORE_FAILED, LISTEN_* */
  static async open(context: NodeContext): Promise<Standby> {
    const { config, database, certificate, others, gate, links, answers } = context
    const closers = createClosers()
    try {
      const files = new ReplicaFiles(config.stateDir)
      closers.push(() => files.close())
      closers.push(() => answers.freeze())
      const record = (await database.read())!
      let standby: Standby | undefined
      const network = openNetwork({ ...context, closers })
      const forwarder = await startForwarder(context, network, certificate, others, links, answers, () => standby?.primary)
      closers.push(forwarder.close)
      standby = new Standby(context, closers, files, record, forwarder)
      gate.proveBy((token) => others.subjectOf(token, standby!.#requirePrimary()))
      standby.#copyAnew()
      await standby.#copy()
      return standby
    } catch (error) {
      await closers.closeAll()
      throw error
    }
  }

  /** The node that holds the lease; undefined: none does, or this one, before it ended and was started again. */
  get primary(): Primary | undefined {
    const { primary } = this.#record
    return primary?.url === this.self.url ? undefined : primary
  }

  #requirePrimary(): Primary {
    const { primary } = this
    if (!primary) throw new Error('there is no primary')
    return primary
  }

  /** @param onPrimary there is one, elsewhere @returns undefined: the node stops. It has let go of its port and its files by then */
  async untilLease(onPrimary: () => void): Promise<Taken | undefined> {
    const { stopping, clock, logger } = this.#context
    let isFailing = false
    for (;;) {
      try {
        const lease = await this.#look()
        if (lease) return await this.#hand(lease)
        if (this.primary) onPrimary()
        isFailing = false
      } catch (err) {
        // It is damaged, or of another release, else: the database comes back.
        if (!isUnavailable(err)) {
          await this.#closers.closeAll()
          throw err
        }
        if (!isFailing) logger.error({ err }, 'the database of the fleet cannot be read')
        isFailing = true
      }
      await clock.sleep(pollMs, stopping).catch(() => {})
      if (stopping.aborted) return void (await this.#closers.closeAll())
    }
  }

  async #look(): Promise<Lease | undefined> {
    const { database, links } = this.#context
    await announce(this.#context, this.self, this.primary?.node)
    await this.#read()
    await this.#copy()
    if (this.#record.primary || links.isLeaving) return undefined
    return database.takeLease(this.self, this.#record.lease, takeOverMs)
  }

  /** Looks who is the primary, and whether the copy still fits. */
  async #read(): Promise<void> {
    const before = this.#record
    this.#record = (await this.#context.database.read())!
    requireFleetServed(this.#record, this.#context.config.fleet)
    if (this.#record.lease !== before.lease) this.#forwarder.onPrimaryChange()
    const isMigrated = JSON.stringify(this.#record.versions) !== JSON.stringify(before.versions)
    // After a long pause, rows may have been deleted of which nothing remains.
    if (isMigrated || (this.#place !== firstPlace && Number(this.#place.ship) < this.#record.purged)) this.#copyAnew()
  }

  async #hand(lease: Lease): Promise<Taken> {
    // The primary before can write no more.
    await this.#read()
    await this.#copy()
    await this.#closers.closeAll()
    return { self: this.self, lease, files: this.#files, versions: this.#record.versions }
  }

  #copyAnew(): void {
    this.#context.answers.freeze()
    this.#mustLearn = true
    this.#files.create(this.#record.versions)
    this.#place = firstPlace
  }

  async #copy(): Promise<void> {
    const { database, stopping, links, answers } = this.#context
    for (let page = await database.rowsAfter(this.#place); page && !stopping.aborted; ) {
      this.#files.apply(page.rows)
      this.#mustLearn ||= page.rows.some(({ table }) => table === 'identities')
      this.#place = page.after
      page = await database.rowsAfter(this.#place)
    }
    if (!this.#mustLearn) return
    this.#mustLearn = false
    const identities = this.#files.store(identityFile)
    links.learn(approvedKeysIn(identities))
    // Keys of an older release may have other columns.
    if (this.#record.versions[identityFile] === ownVersions[identityFile]) answers.know(openKeyStore(identities, () => {}))
  }
}
