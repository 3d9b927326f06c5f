import { routeByScore } from '../../baselines/static-sketches.ts'
import type { Mode } from '../world/mode.ts'
import type { World } from '../world/world.ts'
import { cloudMode } from './cloud.ts'
import { LocalAnswers } from './local.ts'
import { overLink } from './over-link.ts'

/** Questions whose difficulty a router knows before the first one. */
const knownQuestions = 1_000

/** A small model on a device answers the easy questions, the LLM the others (PICE's baseline). Difficulty says nothing of lengths. */
export function routingMode(world: World): Mode {
  const local = new LocalAnswers(world)
  const cloud = overLink(world, cloudMode(world))
  const chance = world.simulation.random('difficulty')
  const known = Array.from({ length: knownQuestions }, () => chance.next())
  const route = routeByScore(known, world.scenario.policies.routing.edgeShare)
  return {
    begin(answer) {
      const side = route(chance.next()) === 'device' ? local : cloud
      side.begin(answer)
    },
  }
}
