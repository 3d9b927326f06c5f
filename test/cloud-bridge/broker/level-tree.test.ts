import fc from 'fast-check'
import { expect, it } from 'vitest'
import { LevelTree } from '../../../cloud-bridge/broker/level-tree.ts'

/** MQTT 3.1.1 §4.7, level by level. */
function matches([wanted, ...filter]: readonly string[], [level, ...topic]: readonly string[]): boolean {
  if (wanted === '#') return true
  if (wanted === undefined || level === undefined) return wanted === level
  return (wanted === '+' || wanted === level) && matches(filter, topic)
}
const isMatch = (filter: string, topic: string) => matches(filter.split('/'), topic.split('/'))

const level = fc.constantFrom('a', 'b', '')
const topic = fc.array(level, { minLength: 1, maxLength: 4 }).map((levels) => levels.join('/'))
const filter = fc
  .tuple(fc.array(fc.oneof(level, fc.constant('+')), { minLength: 1, maxLength: 4 }), fc.boolean())
  .map(([levels, isOpen]) => [...levels, ...(isOpen ? ['#'] : [])].join('/'))

it('finds what matches, after any sequence of changes', () => {
  const changes = <T>(path: fc.Arbitrary<T>) => fc.array(fc.record({ path, isStored: fc.boolean() }), { maxLength: 30 })
  fc.assert(
    fc.property(changes(topic), changes(filter), fc.array(topic), fc.array(filter), (topics, filters, probes, questions) => {
      const [topicTree, filterTree] = [new LevelTree<string>(), new LevelTree<string>()]
      const stored = [topics, filters].map((steps, which) => {
        const known = new Set<string>()
        for (const { path, isStored } of steps) {
          const tree = which === 0 ? topicTree : filterTree
          if (isStored) tree.set(path, path)
          else tree.delete(path)
          known[isStored ? 'add' : 'delete'](path)
        }
        return [...known]
      })
      for (const question of questions)
        expect(topicTree.matchingFilter(question).sort()).toEqual(stored[0]!.filter((path) => isMatch(question, path)).sort())
      for (const probe of probes)
        expect(filterTree.matchingTopic(probe).sort()).toEqual(stored[1]!.filter((path) => isMatch(path, probe)).sort())
      for (const path of topics) expect(topicTree.get(path.path)).toBe(stored[0]!.includes(path.path) ? path.path : undefined)
    }),
  )
})
