import { describe, expect, it } from 'vitest'
import { Suitability } from '../../../../core/policy/pice/suitability.ts'

/** Our own: five requests for several points, and five for one text, fact, program or result, in each language. */
const requests = {
  en: {
    list: [
      'Give me five tips for a good night of sleep.',
      'What are the advantages of trains over cars?',
      'What are the main causes of floods?',
      'How can I save water at home?',
      'List 4 ideas for a birthday party in a garden.',
    ],
    full: [
      'Translate into French: "The house is on fire."',
      'Who wrote Hamlet?',
      'What is 12 * 45 + 3?',
      'Write a poem about the sea.',
      'Write a Python function that counts words.',
    ],
  },
  de: {
    list: [
      'Nenne mir fünf Tipps für guten Schlaf.',
      'Was sind die Vorteile der Bahn gegenüber dem Auto?',
      'Welche Ursachen haben Überschwemmungen?',
      'Wie kann ich zu Hause Wasser sparen?',
      'Gib mir 4 Ideen für ein Gartenfest.',
    ],
    full: [
      'Übersetze ins Französische: „Das Haus brennt."',
      'Wer hat den Faust geschrieben?',
      'Was ist 12 * 45 + 3?',
      'Schreibe ein Gedicht über das Meer.',
      'Schreibe eine Funktion in Python, die Wörter zählt.',
    ],
  },
  fr: {
    list: [
      'Donne-moi cinq conseils pour bien dormir.',
      'Quels sont les avantages du train par rapport à la voiture ?',
      'Quelles sont les causes des inondations ?',
      "Comment puis-je économiser de l'eau à la maison ?",
      'Propose 4 idées pour une fête dans le jardin.',
    ],
    full: [
      'Traduis en allemand : « La maison brûle. »',
      'Qui a écrit Les Misérables ?',
      'Combien font 12 * 45 + 3 ?',
      'Écris un poème sur la mer.',
      'Écris une fonction Python qui compte les mots.',
    ],
  },
  es: {
    list: [
      'Dame cinco consejos para dormir bien.',
      '¿Cuáles son las ventajas del tren frente al coche?',
      '¿Cuáles son las causas de las inundaciones?',
      '¿Cómo puedo ahorrar agua en casa?',
      'Propón 4 ideas para una fiesta en el jardín.',
    ],
    full: [
      'Traduce al inglés: «La casa está en llamas.»',
      '¿Quién escribió Don Quijote?',
      '¿Cuánto es 12 * 45 + 3?',
      'Escribe un poema sobre el mar.',
      'Escribe una función en Python que cuente palabras.',
    ],
  },
  zh: {
    list: [
      '请给我五个改善睡眠的建议。',
      '坐火车比开车有哪些优点？',
      '洪水的主要原因有哪些？',
      '在家里如何节约用水？',
      '请列出4个花园聚会的点子。',
    ],
    full: [
      '把“房子着火了”翻译成英语。',
      '《红楼梦》是谁写的？',
      '12 * 45 + 3 等于多少？',
      '写一首关于大海的诗。',
      '用Python写一个统计单词的函数。',
    ],
  },
} as const

describe.each(Object.entries(requests))('requests in %s', (_, { list, full }) => {
  const suits = (request: string) => new Suitability().judge(request, 1).suits

  it.each(list)('for several points suit a sketch: %s', (request) => {
    expect(suits(request)).toBe(true)
  })

  it.each(full)('for one text, fact or result do not: %s', (request) => {
    expect(suits(request)).toBe(false)
  })
})
