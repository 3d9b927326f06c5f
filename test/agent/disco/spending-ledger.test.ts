import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openSpendingDatabase, SpendingLedger } from '../../../agent/disco/spending-ledger.ts'
import { nothingSpent } from '../../../core/policy/disco/spending.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { spendingOf } from '../../support/spending-of.ts'
import { tempDir } from '../../support/temp-dir.ts'

const hourMs = 3_600_000
const dollars = (amount: number) => ({ ...nothingSpent, dollars: amount, tokens: 1 })

/** A device with a ledger on disk, and a time of day of its own. */
function device(path: string, windowMs = 24 * hourMs) {
  const wall = { ms: Date.UTC(2026, 10, 1) as number | undefined }
  let starts = 0
  return {
    wall,
    /** @param isBoot whether the machine starts, too */
    start(isBoot = true) {
      if (isBoot) starts += 1
      const boot = `${starts}`
      const { logger, lines } = recordingLogger('warn')
      const store = openSpendingDatabase(join(path, 'spending.sqlite'), false, logger)
      const clock = fakeClock()
      const ledger = spendingOf(
        new SpendingLedger({
          store,
          windowMs,
          clocks: () => ({ wallMs: wall.ms, boot, upMs: clock.nowMs() }),
          logger,
        }),
      )
      return { store, clock, ledger, lines, end: () => store.close() }
    },
  }
}

describe('the ledger of spending', () => {
  it('survives a restart, and forgets what is older than the window', async () => {
    using dir = tempDir()
    const { wall, start } = device(dir.path)
    const first = start()
    first.ledger.add('server', dollars(1))
    await first.clock.advance(10 * hourMs)
    first.ledger.add('server', dollars(2))
    first.end()
    wall.ms! += 20 * hourMs
    const second = start()
    expect(second.ledger.spent('server')).toEqual({ ...nothingSpent, dollars: 3, tokens: 2 })
    expect(second.ledger.spent('slm')).toEqual(nothingSpent)
    await second.clock.advance(6 * hourMs)
    expect(second.ledger.spent('server').dollars).toBe(2)
    expect(second.ledger.msUntil('server', 'dollars', 0)).toBeGreaterThan(8 * hourMs - 1)
    second.end()
  })

  it('counts what a killed agent had reserved', () => {
    using dir = tempDir()
    const { start } = device(dir.path)
    const killed = start()
    killed.ledger.reserve('server', dollars(5)).settle(dollars(1))
    killed.ledger.reserve('server', dollars(2)).raise(dollars(3))
    expect(killed.ledger.reserved('server').dollars).toBe(3)
    killed.end()
    for (let n = 0; n < 2; n++) {
      const { ledger, end } = start()
      expect(ledger.spent('server').dollars).toBe(4)
      expect(ledger.reserved('server')).toEqual(nothingSpent)
      end()
    }
  })

  it('settles a reservation once', () => {
    using dir = tempDir()
    const { ledger, end } = device(dir.path).start()
    const [one] = [ledger.reserve('slm', dollars(2)), ledger.reserve('slm', dollars(2))]
    one.settle(dollars(1))
    one.settle(dollars(1))
    expect(ledger.spent('slm').dollars).toBe(1)
    expect(ledger.reserved('slm').dollars).toBe(2)
    end()
  })

  it('keeps what was spent while the clock starts in 1970, is set, and jumps', async () => {
    using dir = tempDir()
    const { wall, start } = device(dir.path)
    wall.ms = undefined
    const { clock, ledger, end } = start()
    ledger.add('server', dollars(1))
    wall.ms = Date.UTC(2026, 10, 1)
    expect(ledger.spent('server').dollars).toBe(1)
    wall.ms -= 300 * 24 * hourMs
    ledger.add('server', dollars(1))
    expect(ledger.spent('server').dollars).toBe(2)
    end()
    wall.ms = undefined
    const rebooted = start()
    expect(rebooted.ledger.spent('server').dollars).toBe(2)
    await rebooted.clock.advance(25 * hourMs)
    expect(rebooted.ledger.spent('server').dollars).toBe(0)
    rebooted.end()
    await clock.advance(0)
  })

  it('frees nothing for a clock that is set ahead step by step, also over restarts of the agent', async () => {
    using dir = tempDir()
    const { wall, start } = device(dir.path)
    let { ledger, end } = start()
    ledger.add('server', dollars(1))
    for (let days = 0; days < 5; days++) {
      wall.ms! += 25 * hourMs
      expect(ledger.spent('server').dollars).toBe(1)
      end()
      ;({ ledger, end } = start(false))
      expect(ledger.spent('server').dollars).toBe(1)
    }
    end()
  })

  it('takes the time of day after a release that did not know the start of the machine', () => {
    using dir = tempDir()
    const { wall, start } = device(dir.path)
    const first = start()
    first.ledger.add('server', dollars(1))
    first.store.exec('UPDATE spending_time SET ms = ms + 1')
    first.end()
    wall.ms! += 20 * hourMs
    const second = start(false)
    expect(second.ledger.msUntil('server', 'dollars', 0)).toBeLessThan(5 * hourMs)
    second.end()
  })

  it('is on disk before a request is sent, so that a power cut forgets nothing', () => {
    using dir = tempDir()
    const { store, end } = device(dir.path).start()
    expect(store.pragma('synchronous', { simple: true })).toBe(2)
    end()
  })

  it('stays small however much is spent', async () => {
    using dir = tempDir()
    const { store, clock, ledger, end } = device(dir.path, hourMs).start()
    for (let n = 0; n < 300; n++) {
      await clock.advance(60_000)
      ledger.reserve('slm', dollars(1)).settle(dollars(1))
    }
    const { rows } = store.prepare<[], { rows: number }>('SELECT count(*) AS rows FROM spending').get()!
    expect(rows).toBeLessThan(67)
    expect(ledger.spent('slm').dollars).toBeLessThan(63)
    end()
  })

  it.each([0, 4_096])('is not begun anew where there is a budget and its file is damaged from byte %i on', (from) => {
    using dir = tempDir()
    const path = join(dir.path, 'spending.sqlite')
    const open = () => openSpendingDatabase(path, true, silentLogger())
    open().close()
    writeFileSync(path, readFileSync(path).fill('x', from))
    expect(open).toThrow(expect.objectContaining({ code: 'STORE_DAMAGED' }))
    expect(readFileSync(path).at(-1)).toBe(0x78)
    writeFileSync(path, '')
    expect(open).toThrow(expect.objectContaining({ code: 'STORE_DAMAGED' }))
  })

  it('begins anew where its file is corrupt, and says so', () => {
    using dir = tempDir()
    writeFileSync(join(dir.path, 'spending.sqlite'), 'x'.repeat(9_000))
    const { ledger, lines, end } = device(dir.path).start()
    ledger.add('slm', dollars(1))
    expect(ledger.spent('slm').dollars).toBe(1)
    expect(lines).toMatchObject([{ msg: 'spending.sqlite damaged: set aside, and begun anew' }])
    end()
  })

  it('counts on when the disk fails', () => {
    using dir = tempDir()
    const { store, ledger, end } = device(dir.path).start()
    store.exec('DROP TABLE spending')
    ledger.reserve('slm', dollars(2)).settle(dollars(1))
    ledger.add('slm', dollars(1))
    expect(ledger.spent('slm').dollars).toBe(2)
    end()
  })
})
