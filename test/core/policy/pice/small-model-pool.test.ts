import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SmallModelPool, type SmallModelPoolInput } from '../../../../core/policy/pice/small-model-pool.ts'

const models = [30, 40, 80, 101].map((bytes, at) => ({ name: `model ${at}`, version: `version ${at}`, bytes }))
const bytesOf = (version: string) => models.find((model) => model.version === version)!.bytes
const limits = { limitBytes: 100, reserveBytes: 10 }

type Step =
  | { readonly kind: 'borrow' | 'close idle'; readonly model: number }
  | { readonly kind: 'give up' | 'return' | 'done'; readonly at: number }
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('borrow' as const), model: fc.nat(4) }),
  fc.record({ kind: fc.constant('close idle' as const), model: fc.nat(3) }),
  fc.record({ kind: fc.constantFrom('give up' as const, 'return' as const, 'done' as const), at: fc.nat(9) }),
)

describe('the pool of small models of a device', () => {
  it('keeps to its memory and to the order of the requests, and ends each of them once', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.infiniteStream(fc.integer({ min: 0, max: 200 })), (steps, free) => {
        const pool = new SmallModelPool(limits)
        const open = new Set<string>()
        const lent: string[] = []
        /** Models that are being opened or closed. */
        const changing: { kind: 'opened' | 'closed'; version: string }[] = []
        const waiting = new Map<number, 'borrow' | 'close idle'>()
        let nowMs = 0
        let hasEnded = false
        function feed(input: SmallModelPoolInput): void {
          nowMs += 1
          for (const action of pool.handle(input, nowMs)) {
            if (action.kind === 'open') {
              // One after another, within the limit unless it is alone.
              expect(changing).toEqual([])
              expect([...open].reduce((sum, version) => sum + bytesOf(version), bytesOf(action.version))).toBeLessThanOrEqual(100)
              changing.push({ kind: 'opened', version: action.version })
            } else if (action.kind === 'close') {
              if (!hasEnded) expect(lent).not.toContain(action.version)
              expect(open.delete(action.version)).toBe(true)
              changing.push({ kind: 'closed', version: action.version })
            } else if (action.kind !== 'ended') {
              expect(Math.min(...waiting.keys())).toBe(action.request)
              expect(waiting.get(action.request)).toBe(action.kind === 'idle closed' ? 'close idle' : 'borrow')
              waiting.delete(action.request)
              if (action.kind === 'lend') {
                expect(open).toContain(action.version)
                lent.push(action.version)
              }
            }
          }
        }
        function complete(): void {
          const change = changing.shift()
          if (change?.kind === 'opened') open.add(change.version)
          if (change) feed({ ...change, freeBytes: free.next().value })
        }
        feed({ kind: 'models', models, freeBytes: 0 })
        for (const [request, each] of steps.entries()) {
          const freeBytes = free.next().value
          if (each.kind === 'borrow' || each.kind === 'close idle') {
            waiting.set(request, each.kind)
            feed({ kind: each.kind, request, name: `model ${each.model}`, freeBytes })
          } else if (each.kind === 'give up') {
            const given = [...waiting.keys()][each.at]
            if (given !== undefined) {
              waiting.delete(given)
              feed({ kind: 'give up', request: given, freeBytes })
            }
          } else if (each.kind === 'return') {
            const [version] = lent.splice(each.at, 1)
            if (version) feed({ kind: 'return', version, freeBytes })
          } else complete()
        }
        // Whatever waits is served once everything is returned.
        for (let left = 300; left > 0 && (changing.length > 0 || lent.length > 0); left -= 1) {
          const version = changing.length === 0 ? lent.shift() : undefined
          if (version) feed({ kind: 'return', version, freeBytes: 200 })
          else complete()
        }
        expect([...waiting]).toEqual([])
        expect(new Set(pool.open)).toEqual(open)
        hasEnded = true
        feed({ kind: 'end', freeBytes: 0 })
        while (changing.length > 0) complete()
        expect(pool.open).toEqual([])
      }),
    )
  })

  it('opens nothing for a request that was given up while others were closed for it', () => {
    const pool = new SmallModelPool(limits)
    const feed = (input: object) => pool.handle({ freeBytes: 1_000, ...input } as SmallModelPoolInput, 0)
    feed({ kind: 'models', models })
    feed({ kind: 'borrow', request: 1, name: 'model 0' })
    feed({ kind: 'opened', version: 'version 0' })
    feed({ kind: 'return', version: 'version 0' })
    expect(feed({ kind: 'borrow', request: 2, name: 'model 2' })).toEqual([{ kind: 'close', version: 'version 0' }])
    feed({ kind: 'give up', request: 2 })
    expect(feed({ kind: 'closed', version: 'version 0' })).toEqual([])
    expect(feed({ kind: 'borrow', request: 3, name: 'model 1' })).toEqual([{ kind: 'open', version: 'version 1' }])
    expect(feed({ kind: 'broken', version: 'version 1' })).toEqual([{ kind: 'refuse', request: 3, why: 'broken' }])
  })
})
