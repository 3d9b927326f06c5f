import { expect, it } from 'vitest'
import { SharedClusters } from '../../../lab/cluster/shared-clusters.ts'

function clustersThat(warmUp: (name: string) => Promise<void>) {
  const log: string[] = []
  const start = async (name: string) => {
    log.push(`start ${name}`)
    return {
      name,
      async [Symbol.asyncDispose]() {
        log.push(`end ${name}`)
      },
    }
  }
  return { log, clusters: new SharedClusters(start, ({ name }) => warmUp(name)) }
}

it('starts and warms up a cluster once, when it is first needed, and ends all of them', async () => {
  const warm: string[] = []
  const { log, clusters } = clustersThat(async (name) => void warm.push(name))
  expect(await clusters.of('a')).toBe(await clusters.of('a'))
  await clusters.of('b')
  await clusters[Symbol.asyncDispose]()
  expect(log).toEqual(['start a', 'start b', 'end a', 'end b'])
  expect(warm).toEqual(['a', 'b'])
})

it('ends a cluster that could not be warmed up', async () => {
  const { log, clusters } = clustersThat(() => Promise.reject(new Error('cold')))
  await expect(clusters.of('a')).rejects.toThrow('cold')
  await clusters[Symbol.asyncDispose]()
  expect(log).toEqual(['start a', 'end a'])
})
