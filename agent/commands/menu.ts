import type { Menu } from '../../core/kit/cli/command.ts'

/** `brim agent …` */
export const menu: Menu = {
  examples: [
    ['brim agent run --bundle qwen --id jetson-01', 'with a bridge on this machine'],
    ['brim agent enroll --id jetson-01 --token-file token', 'enrol at a bridge elsewhere'],
    ['brim agent sample', 'telemetry of this device'],
  ],
  commands: {
    run: ['run an agent until it is stopped', () => import('./run.ts')],
    config: ['check a configuration file, and show where each option was set', () => import('./config.ts')],
    enroll: ['enrol this device at a bridge; its private key never leaves it', () => import('./enroll.ts')],
    'reset-identity': ["replace this device's key and enrolment, for a copied system image", () => import('./reset-identity.ts')],
    budget: ['show what answers have cost, and what they may cost', () => import('./budget.ts')],
    disclosures: ['show what has left this device for each answer, to where, and why', () => import('./disclosures.ts')],
    'support-bundle': ['write what helps to find a fault, without secrets and prompts', () => import('./support-bundle.ts')],
    sample: ['print one telemetry sample of this device', () => import('./sample.ts')],
  },
}
